"""How the weights are held and changed under each kind of launch; one file a kind."""
