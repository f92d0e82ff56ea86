package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
)

// TestBehind: the switch waits for nodes that do not trust the next CA, and the finish for those
// that show a certificate of the old one. Of a node that has said nothing, neither is known.
func TestBehind(t *testing.T) {
	prepared := &api.ReplaceCAReply{Step: "prepared", Trusted: []string{"old", "new"}}
	switched := &api.ReplaceCAReply{Step: "switched", Trusted: []string{"new", "old"}}
	for _, test := range []struct {
		now   *api.ReplaceCAReply
		node  *api.Trusts
		wants bool
	}{
		{prepared, nil, true},
		{prepared, &api.Trusts{Signer: "old", Trusted: []string{"old"}}, true},
		{prepared, &api.Trusts{Signer: "old", Trusted: []string{"old", "new"}}, false},
		{switched, nil, true},
		{switched, &api.Trusts{Signer: "old", Trusted: []string{"new", "old"}}, true},
		{switched, &api.Trusts{Signer: "new", Trusted: []string{"new", "old"}}, false},
		{&api.ReplaceCAReply{Step: "settled", Trusted: []string{"new"}}, nil, false},
	} {
		if got := isBehind(test.now, test.node); got != test.wants {
			t.Errorf("%s, %v: behind is %v", test.now.GetStep(), test.node, got)
		}
	}
}

// TestTooEarly: the error names the nodes, not too many of them, and only steps that can be made
// wait.
func TestTooEarly(t *testing.T) {
	var all []string
	for i := range 25 {
		all = append(all, fmt.Sprintf("n%d", i))
	}
	prepared := &api.ReplaceCAReply{Step: "prepared", Behind: all}
	if text := tooEarly("switch", prepared); !strings.Contains(text, "25 nodes are not known to trust the next CA: n0, ") ||
		!strings.Contains(text, "n19, 5 more. ") || !strings.Contains(text, "--force") {
		t.Error(text)
	}
	switched := &api.ReplaceCAReply{Step: "switched", Behind: all[:1]}
	if text := tooEarly("finish", switched); !strings.Contains(text, "1 node is not known to have a certificate of the new CA: n0. ") {
		t.Error(text)
	}
	for step, now := range map[string]*api.ReplaceCAReply{"abort": prepared, "finish": prepared, "switch": {Step: "prepared"}} {
		if text := tooEarly(step, now); text != "" {
			t.Errorf("%s: %s", step, text)
		}
	}
}
