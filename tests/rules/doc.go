// Package rules holds the rules of this repository as tests: which package may import which, how
// large things may grow, what they may be called, and what must not stand in them. It has no code
// of its own to run.
//
// Each rule reads the tree as it is. What breaks a rule for a good reason is named in that rule's
// list of exceptions, with the reason; an exception that is no longer needed fails the test too.
package rules
