"""Hand a published cut to readers that know no Delta."""
