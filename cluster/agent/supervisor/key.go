package supervisor

import (
	"fmt"
	"strconv"
	"strings"
)

// Key names one attempt of one replica of a launch.
type Key struct {
	Launch  string `json:"launch"`
	Replica int    `json:"replica"`
	Attempt int    `json:"attempt"`
}

// maxLaunch is the longest name of a launch.
const maxLaunch = 63

// String returns the name of the run directory: LAUNCH.REPLICA.ATTEMPT.
func (k Key) String() string { return fmt.Sprintf("%s.%d.%d", k.Launch, k.Replica, k.Attempt) }

// ParseKey parses what String returns.
func ParseKey(name string) (Key, error) {
	launch, rest, found := strings.Cut(name, ".")
	replica, attempt, found2 := strings.Cut(rest, ".")
	k := Key{Launch: launch}
	var err, err2 error
	k.Replica, err = strconv.Atoi(replica)
	k.Attempt, err2 = strconv.Atoi(attempt)
	if !found || !found2 || err != nil || err2 != nil || k.String() != name {
		return Key{}, fmt.Errorf("%w: %.100q is not LAUNCH.REPLICA.ATTEMPT", ErrInvalid, name)
	}
	return k, k.Check()
}

// Check refuses what is not a name for a directory and a cgroup.
func (k Key) Check() error {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	if k.Launch == "" || len(k.Launch) > maxLaunch || strings.ContainsFunc(k.Launch, odd) {
		return fmt.Errorf("%w: launch %.70q: want at most %d letters, digits, - and _", ErrInvalid, k.Launch, maxLaunch)
	}
	if k.Replica < 0 || k.Attempt < 0 {
		return fmt.Errorf("%w: replica %d, attempt %d: want numbers from 0", ErrInvalid, k.Replica, k.Attempt)
	}
	return nil
}
