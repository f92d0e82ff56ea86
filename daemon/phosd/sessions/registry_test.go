package sessions

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
)

// TestRefusalNamesTheLimit checks that a refused program learns which limit is reached.
func TestRefusalNamesTheLimit(t *testing.T) {
	for _, test := range []struct {
		name    string
		limits  config.Sessions
		standby int
		want    string
	}{
		{"quota", config.Sessions{ProgramsPerUser: 1, Total: 2}, 0, "sessions.programs_per_user"},
		{"total", config.Sessions{ProgramsPerUser: 2, Total: 1}, 0, "sessions.total"},
		{"ledger", config.Sessions{ProgramsPerUser: 2, Total: 2}, ledger.Slots - 1, "slots of the memory accounting"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRegistry(test.limits.Total, quota.New(map[quota.Resource]quota.Limit{
				quota.Programs: {Key: "sessions.programs_per_user", What: "programs", Max: uint64(test.limits.ProgramsPerUser)},
			}))
			for range test.standby {
				if _, err := r.reserveStandby(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.reserve(1000, nil); err != nil {
				t.Fatal(err)
			}
			_, err := r.reserve(1000, nil)
			if !errors.Is(err, api.ErrExhausted) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestStartingIsListed checks that a list waits for a session whose program may already run, and
// not for one whose worker has failed.
func TestStartingIsListed(t *testing.T) {
	r := newRegistry(2, nil)
	failed := newSession(nil, rundir.Record{Session: 1}, slot{})
	started := newSession(nil, rundir.Record{Session: 2}, slot{})
	r.start(failed)
	r.start(started)
	listed := make(chan []*Session, 1)
	go func() { listed <- r.all() }()
	r.notStarted(failed)
	select {
	case early := <-listed:
		t.Fatalf("listed while a session starts: %d sessions", len(early))
	case <-time.After(10 * time.Millisecond):
	}
	r.add(started)
	if got := <-listed; !slices.Equal(got, []*Session{started}) {
		t.Errorf("listed: %d sessions, want the one that has started", len(got))
	}
}
