// Search in a page that was opened from the disk, where browsers allow no workers: a frame is one.
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe"), early = [];
    let post = data => early.push(data);
    this.postMessage = data => post(data);
    window.addEventListener("message", each => {
      if (each.source === frame.contentWindow)
        this.dispatchEvent(new MessageEvent("message", {data: each.data}));
    });
    frame.hidden = true;
    frame.srcdoc = `<script>
      var postMessage = data => parent.postMessage(data, "*");
      var importScripts = (...all) => all.reduce((before, src) => before.then(() => new Promise(done => {
        const script = document.createElement("script");
        script.onload = done;
        script.src = src;
        document.head.append(script);
      })), Promise.resolve());
    <\/script><script src="${new URL(url, location)}"><\/script>`;
    frame.onload = () => {
      post = data => frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}));
      early.splice(0).forEach(post);
    };
    document.body.append(frame);
  }
  terminate() {}
};
