"""An attack on ``vg.predict``: generated graphs, networks and options, and laws that must hold.

``python -m campaign`` runs it for as long as asked, ``test_campaign.py`` a few hundred cases of it.
"""
