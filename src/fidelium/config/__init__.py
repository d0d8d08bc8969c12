"""The study file, `study.yaml`: `schema` has its keys, `load` loads and checks it, `peek` finds its study quickly."""
