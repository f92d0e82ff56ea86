// Package victims holds the policies that choose who makes room for a job that goes before them.
//
// Who may be stopped at all is not decided here: the engine offers those who rank behind the
// waiting job and have had their time, the last first, stops nobody unless the job then fits, and
// asks for more where GPUs of the right number are not enough.
//
// Read tail.go first.
package victims
