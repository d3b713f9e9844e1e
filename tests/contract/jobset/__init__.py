"""The controller beside the real controller of JobSets."""
