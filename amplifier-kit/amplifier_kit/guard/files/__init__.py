"""Read and write files below allowed folders, without following links unchecked or leaving half-written files."""
