"""The live page of a running join: a small web application, and its HTML, CSS and JavaScript."""
