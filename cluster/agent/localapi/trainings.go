package localapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline/progress"
	"github.com/phos-gpu/phos/internal/linux/boottime"
)

// Trainings keep what trainings with phos.pipeline have last said of themselves.
type Trainings struct {
	mu  sync.Mutex
	all map[string]said // by launch
}

// said is what a training has said, and when.
type said struct {
	status []byte
	at     time.Duration // since boot
}

// NewTrainings returns an empty set.
func NewTrainings() *Trainings { return &Trainings{all: map[string]said{}} }

// KeepTraining keeps what a launch says, instead of what it has said before.
func (t *Trainings) KeepTraining(launch string, status []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[launch] = said{status, boottime.Now()}
}

// Find returns what a launch has last said, and how long ago; nil if it has said nothing.
func (t *Trainings) Find(launch string) (status []byte, age time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.all[launch]
	if !ok {
		return nil, 0
	}
	return last.status, boottime.Now() - last.at
}

// ForgetTraining forgets a launch that has no processes here any more.
func (t *Trainings) ForgetTraining(launch string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, launch)
}

// training takes what a training says of itself.
func (s *Server) training(w http.ResponseWriter, r *http.Request) {
	id, uid := r.PathValue("id"), r.Context().Value(userKey{}).(uint32)
	if !s.launches.HasProcesses(id, uid) {
		answer(w, http.StatusNotFound, failure{errUnknown.Error()})
		return
	}
	status, err := io.ReadAll(http.MaxBytesReader(w, r.Body, progress.MaxBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		answer(w, http.StatusRequestEntityTooLarge, failure{fmt.Sprintf("a training may say %d bytes of itself", progress.MaxBytes)})
	case err != nil:
		answer(w, http.StatusBadRequest, failure{err.Error()})
	default:
		s.launches.KeepTraining(id, status)
		if !s.launches.HasProcesses(id, uid) { // the last one has ended since
			s.launches.ForgetTraining(id)
		}
		answer(w, http.StatusOK, struct{}{})
	}
}
