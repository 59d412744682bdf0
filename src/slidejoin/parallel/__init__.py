"""How work is spread over cores: by disjoint ownership, without locks."""
