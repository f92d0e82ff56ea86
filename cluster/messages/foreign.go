package messages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/words"
)

// maxForeign is how many processes a text about a GPU names.
const maxForeign = 3

// ForeignUse says which processes that belong to no launch use a GPU; empty: none do.
func ForeignUse(g *api.GPU) string {
	if g.GetForeign() == 0 {
		return ""
	}
	var each []string
	for _, p := range g.GetForeignProcesses() {
		if len(each) == maxForeign {
			each = append(each, fmt.Sprintf("%d more", len(g.GetForeignProcesses())-maxForeign))
			break
		}
		each = append(each, foreignProcess(p))
	}
	text := "used by " + words.Count(int(g.GetForeign()), "process", "processes") + " outside phos"
	if slices.ContainsFunc(g.GetForeignProcesses(), (*api.ForeignProcess).GetUnderPhos) {
		text = "used by " + words.Count(int(g.GetForeign()), "process", "processes") + " of no launch"
	}
	if len(each) > 0 {
		text += " (" + strings.Join(each, "; ") + ")"
	}
	return text
}

// foreignProcess names a process, its user and its memory, as far as these are known.
func foreignProcess(p *api.ForeignProcess) string {
	text := fmt.Sprintf("pid %d", p.GetPid())
	if p.GetUser() != "" {
		text += " of " + words.Clip(p.GetUser())
	}
	if p.UsedBytes != nil {
		text += ", " + words.Bytes(p.GetUsedBytes())
	}
	if p.GetUnderPhos() {
		text += ", under phos"
	}
	return text
}
