package checkpoints

import (
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// noticeWithoutGPU tells the caller that no process of the trees uses a GPU through phos. The image
// is complete, but often the program was meant to run under phos.
func (r *Request) noticeWithoutGPU(roots []proc.Identity) {
	if r.Notice == nil {
		return
	}
	of := make([]string, len(roots))
	for i, root := range roots {
		of[i] = fmt.Sprint(r.Caller.CallerPID(root))
	}
	r.Notice(fmt.Sprintf(
		"no process of pid %s uses a GPU through phos: only its CPU half is saved; "+
			"was it started with pos_cli run or env $phos?",
		strings.Join(of, ", "),
	))
}

// noticeOtherProgram tells the caller that the image so far is of another program. That is allowed,
// but often the directory is the wrong one, and a restore takes the newest generation.
func (c *Checkpoints) noticeOtherProgram(r Request, dir *store.Dir, root proc.Identity) {
	newest, err := dir.Newest()
	if err != nil {
		return // a new image
	}
	m, err := dir.Inspect(newest)
	if err != nil || len(m.Processes) == 0 {
		return // damage is reported elsewhere
	}
	for _, s := range c.sessions.Below(r.Roots) {
		if last := s.Checkpoint(); last != nil && last.Dir == pathOf(r.Files[0]) {
			return // it was restored from here, maybe with other pids
		}
	}
	if had := m.Processes[0]; had.PID != root.PID || had.Command != root.Name() {
		r.Notice(fmt.Sprintf(
			"generation %d is of another program than generation %d (%s, pid %d); "+
				"--restore takes the newest, or --generation N",
			newest+1, newest, had.Command, had.PID,
		))
	}
}
