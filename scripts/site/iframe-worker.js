// Browsers do not start a Worker for a page that is opened as a file, so search would not work there. This code replaces the Worker with an
// empty frame, which runs the script and passes messages on.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.appendChild(frame);
      const scope = this.scope = frame.contentWindow;
      scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      scope.importScripts = (...urls) => Promise.all(urls.map(each => this.load(each)));
      this.load(url).then(() => {
        this.isReady = true;
        this.waiting.splice(0).forEach(data => this.postMessage(data));
      });
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.scope.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = reject;
        this.scope.document.documentElement.appendChild(script);
      });
    }

    postMessage(data) {
      if (this.isReady) this.scope.dispatchEvent(new MessageEvent("message", {data}));
      else this.waiting.push(data);
    }

    terminate() {
      this.scope.frameElement.remove();
    }
  };
}
