package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Horizon is the end of virtual time: 126 years. Sums of two such times still fit a time.Duration;
// beyond, they would overflow.
const Horizon = 4_000_000_000 * time.Second

// ErrHorizon is returned if something would happen beyond it.
var ErrHorizon = errors.New("virtual time ends at 4000000000 s, 126 years")

// CheckTimes returns an error for a job that could not end before the horizon even if it started at
// once.
func CheckTimes(j *cluster.Job) error {
	if j.Submit > Horizon || j.Length > Horizon-j.Submit || j.Estimate > Horizon {
		return fmt.Errorf("job %d: submit_s %s, duration_s %s, estimate_s %s: %w",
			j.ID, Seconds(j.Submit), Seconds(j.Length), Seconds(j.Estimate), ErrHorizon)
	}
	return nil
}
