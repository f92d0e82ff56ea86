package elastic

import "errors"

// ErrUnknown is returned for the name of an unknown elastic policy.
var ErrUnknown = errors.New("unknown elastic policy")
