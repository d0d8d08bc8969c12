"""Running evaluations: in this process, in others, by external programs; one at a time, guarded and bounded."""
