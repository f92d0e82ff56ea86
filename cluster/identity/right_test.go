package identity

import (
	"errors"
	"strings"
	"testing"
)

// callers has one caller for each row of the table.
var callers = map[string]Caller{
	"node":       {Kind: Node, Name: "gpu1"},
	"controller": {Kind: Controller, Name: "c1"},
	"admin":      {Kind: User, Name: "ops", Account: "carol", Role: RoleAdmin},
	"root":       {Kind: Local, Name: "root", Account: "root", Role: RoleAdmin},
	"user":       {Kind: User, Name: "laptop", Account: "alice", Role: RoleUser},
	"localuser":  {Kind: Local, Name: "alice", Account: "alice", Role: RoleUser},
	"viewer":     {Kind: User, Name: "wall", Account: "dave", Role: RoleViewer},
	"none":       {},
}

// table is what each caller may do: to all targets, to its own, or to none.
const table = `
verb   thing       node controller admin root user localuser viewer none
view   launch      -    all        all   all  own  own       all    -
create launch      -    all        all   all  own  own       -      -
change launch      -    all        all   all  own  own       -      -
report launch      -    -          -     -    -    -         -      -
renew  launch      -    -          -     -    -    -         -      -
view   machine     own  all        all   all  all  all       all    -
create machine     -    all        all   all  -    -         -      -
change machine     -    all        all   all  -    -         -      -
report machine     own  -          -     -    -    -         -      -
renew  machine     own  -          -     -    -    -         -      -
view   assignment  own  all        all   all  -    -         all    -
create assignment  -    all        all   all  -    -         -      -
change assignment  -    all        all   all  -    -         -      -
report assignment  own  -          -     -    -    -         -      -
renew  assignment  -    -          -     -    -    -         -      -
view   user+token  -    all        all   all  own  own       all    -
create user+token  -    all        all   all  -    own       -      -
change user+token  -    all        all   all  own  own       -      -
report user+token  -    -          -     -    -    -         -      -
renew  user+token  -    -          -     -    -    -         -      -
view   settings    -    all        all   all  -    -         all    -
create settings    -    all        all   all  -    -         -      -
change settings    -    all        all   all  -    -         -      -
report settings    -    -          -     -    -    -         -      -
renew  settings    -    -          -     -    -    -         -      -
`

// ownerOf returns the owner of targets that are a caller's own.
func ownerOf(c Caller) string {
	if c.Kind == User || c.Kind == Local {
		return c.Account
	}
	return c.Name
}

func TestTable(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	header := strings.Fields(lines[0])
	checked := map[act]bool{}
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		verb, thing := Verb(cells[0]), Thing(strings.ReplaceAll(cells[1], "+", " "))
		checked[act{verb, thing}] = true
		for i, name := range header[2:] {
			c, want := callers[name], cells[i+2]
			for owner, may := range map[string]bool{
				ownerOf(c): want != "-",
				"other":    want == "all",
				"":         want == "all",
			} {
				if owner == "" && ownerOf(c) == "" {
					may = false // the caller that is none
				}
				if got := May(c, verb, Target{thing, owner}); got != may {
					t.Errorf("%s may %s %s of %q: %v, want %v", name, verb, thing, owner, got, may)
				}
			}
		}
	}
	for _, verb := range []Verb{View, Create, Change, Report, Renew} {
		for _, thing := range []Thing{Launch, Machine, Assignment, UserToken, Settings} {
			if !checked[act{verb, thing}] {
				t.Errorf("the table lacks %s %s", verb, thing)
			}
			delete(checked, act{verb, thing})
		}
	}
	for left := range checked {
		t.Errorf("the table has %s %s, which does not exist", left.verb, left.thing)
	}
}

// TestUnknownCallers: what is not known gives no right, even to what has the same empty name.
func TestUnknownCallers(t *testing.T) {
	for _, c := range []Caller{
		{},
		{Kind: User},
		{Kind: Local, Account: "alice"},
		{Kind: User, Account: "alice", Role: "owner"},
		{Kind: "robot", Name: "gpu1", Account: "alice", Role: RoleAdmin},
		{Kind: Node, Role: RoleAdmin, Account: "alice"}, // without a name
		{Kind: User, Role: RoleUser, Name: "alice"},     // without an account
		{Kind: Node, Name: "alice", Role: RoleAdmin},    // a node cannot be a user
	} {
		for _, verb := range []Verb{View, Create, Change, Report, Renew, ""} {
			for _, owner := range []string{"", "alice", "gpu1"} {
				if May(c, verb, Target{Launch, owner}) || May(c, verb, Target{Settings, owner}) || May(c, verb, Target{"", owner}) {
					t.Errorf("%+v may %s something of %q", c, verb, owner)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	if err := Check(callers["user"], View, Target{Launch, "alice"}); err != nil {
		t.Error(err)
	}
	err := Check(callers["user"], Change, Target{Launch, "bob"})
	const want = "user alice (token laptop): change launch of bob: not allowed"
	if !errors.Is(err, ErrForbidden) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	err = Check(callers["node"], View, Target{Thing: Settings})
	if !errors.Is(err, ErrForbidden) || err.Error() != "node gpu1: view settings: not allowed" {
		t.Error(err)
	}
}

func TestCheckAccount(t *testing.T) {
	allowed := Caller{Kind: User, Role: RoleUser, Account: "root", AllowRoot: true}
	for _, test := range []struct {
		caller  Caller
		account string
		uid     uint32
		want    error
	}{
		{callers["user"], "alice", 1000, nil},
		{callers["user"], "alice", 0, ErrRootAccount},
		{callers["user"], "root", 1000, ErrRootAccount},
		{callers["admin"], "toor", 0, ErrRootAccount},
		{callers["root"], "root", 0, ErrRootAccount},
		{allowed, "root", 0, nil},
	} {
		if err := test.caller.CheckAccount(test.account, test.uid); !errors.Is(err, test.want) {
			t.Errorf("%v as %s, %d: %v, want %v", test.caller, test.account, test.uid, err, test.want)
		}
	}
}
