/** Bytes that many hold together, and the most they ever held. */
export class Room {
  heldBytes = 0;
  mostBytes = 0;

  constructor(limitBytes) {
    this.limitBytes = limitBytes;
  }

  get isOver() {
    return this.heldBytes > this.limitBytes;
  }

  take(bytes) {
    this.heldBytes += bytes;
    this.mostBytes = Math.max(this.mostBytes, this.heldBytes);
  }
}
