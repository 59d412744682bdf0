"""A window that is divided among join cores: each row is stored by one core, each probe goes to all."""
