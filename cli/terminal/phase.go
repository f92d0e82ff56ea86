package terminal

// PhaseText returns a phase of a checkpoint or a restore in words.
func PhaseText(phase string) string {
	switch phase {
	case "settle":
		return "waiting until its restore is complete"
	case "copy":
		return "copying while the program runs"
	case "drain":
		return "waiting for the GPU to be idle"
	case "cut":
		return "paused, copying what changed"
	case "write":
		return "writing the image"
	case "load":
		return "loading memory"
	}
	return phase
}
