"""From labelled lists to a trained student."""
