package sessions

import (
	"errors"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
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
