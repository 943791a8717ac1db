"""One page that shows what a run did: ``report.html``."""
