package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// Horizon is how far virtual time goes: 126 years. Twice as much can still be added up in a
// time.Duration; beyond, sums would wrap round and jobs seem to have ended long ago.
const Horizon = 4_000_000_000 * time.Second

// ErrHorizon is in the chain of an error about what would happen beyond it.
var ErrHorizon = errors.New("virtual time ends at 4000000000 s, 126 years")

// CheckTimes refuses a job that could not end before the horizon even if it started at once.
func CheckTimes(j *cluster.Job) error {
	if j.Submit > Horizon || j.Length > Horizon-j.Submit || j.Estimate > Horizon {
		return fmt.Errorf("job %d: submit_s %s, duration_s %s, estimate_s %s: %w",
			j.ID, Seconds(j.Submit), Seconds(j.Length), Seconds(j.Estimate), ErrHorizon)
	}
	return nil
}
