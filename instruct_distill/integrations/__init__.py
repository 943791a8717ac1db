"""A student inside other people's libraries; one small file each, none imported unless it is asked for."""
