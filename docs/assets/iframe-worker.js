// Browsers refuse to start a worker from a file. The site's search then runs in a hidden frame instead.
// The name of this file matters: without an "iframe-worker" the site builder would link to one on the internet.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      // What a worker's script finds: its own messages go to the page, and scripts load in order.
      inside.postMessage = (data) => this.received(data);
      inside.importScripts = (...urls) =>
        urls.reduce((earlier, next) => earlier.then(() => this.load(next)), Promise.resolve());
      this.ready = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script");
        Object.assign(script, { src: new URL(url, location.href), onload: resolve, onerror: reject });
        this.frame.contentDocument.body.appendChild(script);
      });
    }

    received(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
