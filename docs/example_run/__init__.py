"""Makes docs/example-run.md: one real request between two datasites of invented people, from plan to verified logs."""
