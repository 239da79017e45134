"""Changes of a partition's log in a copy: new records, markers, cuts, new segments and cleaning passes."""
