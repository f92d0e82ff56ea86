package harness

import "regexp"

var joinToken = regexp.MustCompile(`[^\s"]+@[^\s"]+:[0-9]+`)

// JoinToken returns the token that phos node token has printed among other words.
func JoinToken(said string) string { return joinToken.FindString(said) }
