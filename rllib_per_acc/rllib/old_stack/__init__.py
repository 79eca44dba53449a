"""RLlib's old API stack: `SampleBatch`es, and buffers that may be actors themselves."""
