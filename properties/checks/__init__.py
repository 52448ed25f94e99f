"""The checks of an audit: claims about whole models, each file called by its checks' prefix."""
