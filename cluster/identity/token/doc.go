// Package token makes and checks the two kinds of tokens of a cluster: those by which nodes join,
// and those by which users are known.
//
// A token is text that people copy, so it has a checksum: each change of one character is found
// before the token is sent anywhere. Its secret has 128 random bits. The store keeps only the
// secret's SHA-256 in a record (JoinRecord, UserRecord), beside what the token allows. A slow hash
// would add nothing, because such a secret cannot be guessed.
//
//	phosjoin_1....@HOST:PORT,HOST:PORT    Join: also the CA's fingerprint and the time it ends
//	phos_1....                            User
//
// The fingerprint in a Join lets the agent know the controller before it sends the secret
// (channel.FirstContact).
//
// The package has no clock and no store. The controller that looks a record up by the id of a token
// also counts its uses, by replacing the record with what JoinRecord.Used returns.
//
// Read join.go, then user.go. text.go is the form of both.
package token
