// A browser starts no worker on a page that was opened as a file. There the script of the worker, which is the
// search, runs in a hidden frame of the page instead; behind an address nothing is changed.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.onmessage = null
      this.onerror = null
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = told => {
        const data = structuredClone(told) // as a worker's messages are: what it does to its own is its affair
        setTimeout(() => this.onmessage?.({ data }))
      }
      const script = inside.document.createElement("script")
      this.ready = new Promise(resolve => { script.onload = resolve })
      script.onerror = event => this.onerror?.(event)
      script.src = new URL(address, document.baseURI)
      inside.document.documentElement.append(script)
    }

    postMessage(told) {
      const data = structuredClone(told)
      this.ready.then(() => setTimeout(() => {
        const inside = this.frame.contentWindow
        inside?.dispatchEvent(new inside.MessageEvent("message", { data }))
      }))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
