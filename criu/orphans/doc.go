// Package orphans kills what a watchdog or restorer left behind when it was killed: CRIU, CRIU's
// helpers, a partly restored tree.
package orphans
