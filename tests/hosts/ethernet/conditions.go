package ethernet

import "time"

// Conditions say what happens to frames on a line. The zero value delivers them at once.
type Conditions struct {
	// Cut drops every frame, those included that are on their way.
	Cut bool
	// Delay is added to every frame.
	Delay time.Duration
	// Jitter is the most that is added to Delay, at random. Frames may overtake each other then.
	Jitter time.Duration
	// Loss is the share of frames that are dropped at random, from 0 to 1.
	Loss float64
	// BytesPerSecond is the rate; 0 means no limit.
	BytesPerSecond int64
}

// immediate reports whether frames need not wait.
func (c Conditions) immediate() bool { return c.Delay == 0 && c.Jitter == 0 && c.BytesPerSecond == 0 }

// transmission returns the time that a frame occupies the line.
func (c Conditions) transmission(bytes int) time.Duration {
	if c.BytesPerSecond <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(c.BytesPerSecond) * float64(time.Second))
}
