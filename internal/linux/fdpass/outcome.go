package fdpass

import "errors"

// Kinds are the errors that both ends distinguish, with the names under which they are sent. If an
// error is of several kinds, the first counts.
type Kinds []Kind

// Kind is one of them.
type Kind struct {
	Name string
	Err  error
}

// Outcome is the result of a request, as it is sent.
type Outcome struct {
	Error string `json:"error,omitempty"`
	// Kind is the name of the sentinel that Error wraps.
	Kind string `json:"kind,omitempty"`
}

// Outcome converts an error for sending; nil becomes the zero Outcome.
func (k Kinds) Outcome(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	for _, kind := range k {
		if errors.Is(err, kind.Err) {
			return Outcome{err.Error(), kind.Name}
		}
	}
	return Outcome{Error: err.Error()}
}

// Err converts a received Outcome to an error with the same text. errors.Is works for its kind.
func (k Kinds) Err(sent Outcome) error {
	if sent.Error == "" {
		return nil
	}
	for _, kind := range k {
		if kind.Name == sent.Kind {
			return &remote{sent.Error, kind.Err}
		}
	}
	return &remote{text: sent.Error}
}

// remote is an error of the other end.
type remote struct {
	text string
	kind error
}

func (e *remote) Error() string { return e.text }
func (e *remote) Unwrap() error { return e.kind }
