package serve

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
)

// execNote is the event about a command of phos exec.
type execNote struct {
	leader  *control.Leader
	by      string
	at      source
	command [][]byte
	once    sync.Once
}

// Limits of the event.
const (
	// noteRunes is how much of a command it has.
	noteRunes = 200
	// noteTime is how long the store may take: the command has ended, and its user waits.
	noteTime = 5 * time.Second
)

// write adds the event to those of the launch, with how the command has ended. Only the first call
// does. The request may be over. Without the event, the command has ended all the same.
func (n *execNote) write(ctx context.Context, end string) {
	n.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
		defer cancel()
		_ = n.leader.Ask(ctx, func(t control.Turn) error {
			if l := t.Find(n.at.launch); l != nil {
				t.Note(l, "exec", fmt.Sprintf("%s ran %s in %s.%d.%d on %s: %s",
					n.by, shownCommand(n.command), n.at.job, n.at.index, n.at.process, n.at.node, end))
			}
			return nil
		})
	})
}

// shownCommand returns the words of a command, shortened.
func shownCommand(words [][]byte) string {
	text := []rune(strings.ToValidUTF8(string(bytes.Join(words, []byte(" "))), "\ufffd"))
	if len(text) > noteRunes {
		text = append(text[:noteRunes-1], '…')
	}
	return string(text)
}

// endOfExec says how a command has ended.
func endOfExec(end *api.ExecEnd) string {
	text := fmt.Sprintf("exit %d", end.GetCode())
	if end.GetSignal() != 0 {
		text = fmt.Sprintf("signal %d", end.GetSignal())
	}
	if end.GetError() != "" {
		text += ": " + end.GetError()
	}
	return text
}
