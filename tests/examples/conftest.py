from installed import lights, lights_folder

__all__ = ["lights", "lights_folder"]
