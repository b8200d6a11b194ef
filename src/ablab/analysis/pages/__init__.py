"""The parts of the report, one file each; `build.document` puts them together."""
