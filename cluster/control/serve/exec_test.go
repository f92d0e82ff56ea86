package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// TestOneProcess: a selection means one process that runs, or is refused with what it may mean.
func TestOneProcess(t *testing.T) {
	spec := launch.Spec{Name: "train", Jobs: []launch.Job{
		{Name: "main", Replicas: launch.Replicas{Min: 6, Max: 6}, Processes: make([]launch.Process, 2)},
		{Name: "log", Replicas: launch.Replicas{Min: 1, Max: 1}, Processes: make([]launch.Process, 1)},
	}}
	l := &record.Launch{ID: "l-1", State: launch.New(spec)}
	for i := range l.State.Replicas {
		if r := &l.State.Replicas[i]; i != 1 {
			r.Live, r.Attempt = true, 3
			l.OpenSpan(record.Span{Replica: i, Attempt: 3, Node: fmt.Sprint("n", i)})
		}
	}
	for what, want := range map[string]string{
		"train/log": "l-1/log.0.0 on n6", "train/main.2.1": "l-1/main.2.1 on n2",
		"train/main.0": "2 processes of launch train run; name one: l-1/main.0.0, l-1/main.0.1",
		"train": "11 processes of launch train run; name one: l-1/main.0.0, l-1/main.0.1, l-1/main.2.0, l-1/main.2.1, " +
			"l-1/main.3.0, l-1/main.3.1, l-1/main.4.0, l-1/main.4.1, and 3 more",
		"train/main.1": "nothing runs there", "train/main.0.2": "job main has 2 processes", "train/main.9": "no replica main.9",
	} {
		selected, err := parseSelection(what)
		if err != nil {
			t.Fatal(err)
		}
		at, err := oneProcess(l, selected)
		got := at.String() + " on " + at.node
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
}

// TestMayExec: who may not change a launch, or not be root, runs no command there.
func TestMayExec(t *testing.T) {
	caller := func(kind identity.Kind, role identity.Role, account string, root bool) identity.Caller {
		return identity.Caller{Kind: kind, Name: "x", Role: role, Account: account, AllowRoot: root}
	}
	for _, each := range []struct {
		caller identity.Caller
		owner  string
		want   error
	}{
		{caller(identity.User, identity.RoleUser, "ada", false), "ada", nil},
		{caller(identity.User, identity.RoleUser, "ada", false), "bob", identity.ErrForbidden},
		{caller(identity.User, identity.RoleViewer, "ada", true), "ada", identity.ErrForbidden},
		{caller(identity.Local, identity.RoleAdmin, "bob", false), "ada", nil},
		{caller(identity.Local, identity.RoleAdmin, "bob", false), "root", identity.ErrRootAccount},
		{caller(identity.Local, identity.RoleAdmin, "root", true), "root", nil},
		{caller(identity.User, identity.RoleUser, "root", false), "root", identity.ErrRootAccount},
		{identity.Caller{Kind: identity.Node, Name: "ada"}, "ada", identity.ErrForbidden},
	} {
		if err := mayExec(each.caller, &record.Launch{Owner: each.owner}); !errors.Is(err, each.want) {
			t.Errorf("%v in a launch of %s: %v, want %v", each.caller, each.owner, err, each.want)
		}
	}
}

// TestCheckExec: commands that no node would start are refused where they arrive.
func TestCheckExec(t *testing.T) {
	for command, want := range map[string]error{
		"": api.ErrInvalid, "true": nil, "\xff": nil, strings.Repeat("x", api.MaxExecCommand): api.ErrTooLarge,
	} {
		if err := checkExec(&api.ExecStart{Command: [][]byte{[]byte(command)}}); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", command, err, want)
		}
	}
	if err := checkExec(nil); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("no start: %v", err)
	}
}
