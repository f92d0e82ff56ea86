package fdpass

import "errors"

// Kinds are the errors that both ends of a conversation tell apart, by the names under which they
// are sent. When an error is of several, the first counts.
type Kinds []Kind

// Kind is one of them.
type Kind struct {
	Name string
	Err  error
}

// Outcome is how an order went, as it is sent.
type Outcome struct {
	Error string `json:"error,omitempty"`
	// Kind says which sentinel Error is.
	Kind string `json:"kind,omitempty"`
}

// Outcome is an error as it is sent; the zero Outcome for none.
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

// Err is the error that the other end had: its text, and its kind for errors.Is.
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

// remote is an error of the other end's.
type remote struct {
	text string
	kind error
}

func (e *remote) Error() string { return e.text }
func (e *remote) Unwrap() error { return e.kind }
