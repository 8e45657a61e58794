// Package replay tells which limits fit, from the access logs of a site: how busy its clients are, and which requests a
// limit would have refused. Limiters of package core decide, on a memstore whose clock shows the log's time. The
// command sash replay is made of it, as docs/choosing.md shows; a program takes the package for its own key functions:
//
//	logs, err := replay.New(replay.Config{Key: keyfuncs.RemoteIP, Limits: limiter.Limits()})
//	file, err := os.Open("access.log")
//	err = logs.Read("access.log", file)
//	report, err := logs.Report()
//	err = report.WriteText(os.Stdout)
//
// A line becomes an *http.Request for Key, Skip and Route.Match. It has what the log has of the method, the address,
// the path, the host, the user (see [User]) and the headers, and is reused for the next line. A handler is not asked:
// it would do what it does, such as to send mail, and refuse requests that have lost their cookies in the log.
//
// Requests are sorted by time over the whole log, whatever the order of lines and files. Where the log has the duration
// of a request, its time is that of its beginning. Files are read one after the other, and the memory is bounded by
// [Config].MaxBytes: what comes when it is full is counted, and the report says so.
package replay
