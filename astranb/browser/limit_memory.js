// Stands before Pyodide: its memory ends at 2 GiB. Above, Pyodide 0.29 takes addresses for negative numbers: bytes of
// Python arrive as zeros, and texts end it. So Python has a MemoryError there, which it can say.
{
  const { Memory } = WebAssembly;
  WebAssembly.Memory = class extends Memory {
    constructor(limits) {
      super({ ...limits, maximum: Math.min(limits.maximum ?? 2 ** 15, 2 ** 15) });
    }
  };
}
