/* Search in pages that are opened from a folder: browsers refuse workers there, so a hidden
   frame runs the same script. mkdocs-material would fetch such a stand-in from the network. */
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.appendChild(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    const script = this.inside.document.createElement("script");
    this.loaded = new Promise((resolve) => script.addEventListener("load", resolve));
    script.src = url;
    this.inside.document.body.appendChild(script);
  }

  postMessage(data) {
    this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
