package elastic

import "errors"

// ErrUnknown is a name that no elastic policy has.
var ErrUnknown = errors.New("unknown elastic policy")
