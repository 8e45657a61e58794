package main

// help is the text of sash -help.
const help = `sash tells from access logs which limits fit, and looks up and resets clients of limits that
are counted in Redis.

  sash replay [flags] [file ...]   how busy clients were, and what limits would have done; needs no Redis
  sash usage [flags]       what a client has used of the limits of a rule; writes nothing
  sash reset [flags]       forget what is counted for a client under the limits of a rule
  sash check [flags]       whether a Redis is fit for counting: the password, permissions,
                           memory settings, the version, the time of a round trip; makes and
                           removes counts of its own; with -thorough, whether it keeps the
                           promises of sash, a line for each

Which limits fit (replay). Files may be compressed by gzip and come in any order; without one, or for -, the standard
input is read. Common, combined, HAProxy's, W3C (IIS, CloudFront), and JSON of Caddy and Traefik are recognised.

  -limit LIMIT       try a limit, as below; given several times, they hold together. Without one, a number to set is
                     told for each window, which refuses nobody, and what half of it would have done
  -route 'POST /login=5/15m'  try a limit of a route, behind those for all
  -only 'POST /login', -skip /health   choose requests by method and path, as SkipPaths does; may be repeated
  -window D          measure clients in windows of this length (default 1s, 10s, 1m, 1h and 24h; may be repeated)
  -key KIND          ip (default; -ipv6 BITS as below, 64), header:NAME or user: who the client is. -trust CIDR,... are
                     the proxies whose X-Forwarded-For is believed
  -format TEXT       how a line is written, as nginx's log_format: '$remote_addr [$time_local] "$request"'
  -fields LIST       which fields of JSON have what: 'time=ts,ip=request.remote_ip,method=...,path=...'; the others are
                     user, host, request, date, duration and header:NAME
  -html FILE         write a page with a picture; -json prints JSON; -names hash hides the names of clients

Which Redis (all other commands):

  -redis URL       redis://[user:password@]host:port[/db], rediss:// with TLS, or unix://.
                   Without the flag, REDIS_URL of the environment counts: a password there
                   is not seen in the list of processes. One server: of Sentinel give the
                   master, of a Cluster the master that holds the client. On another one
                   the error says MOVED and the address of the right one.
  -prefix PREFIX   that of redisstore.WithPrefix (default sash)
  -timeout D       how long to wait for an answer of usage and reset (default 5s)
  -json            write JSON

Which limits (usage, reset), as in the program that counts. The name of the limiter and of the
rule, and window, algorithm and name of each limit are part of a count's identity, so with
another one nothing is found:

  -name NAME       Config.Name (default empty)
  -rule RULE       the name given to Limiter.Rule (default: the limiter itself)
  -limit LIMIT     requests/window, then "counter", "coarse" or "bucket" if it is no log, then "named"
                   and the name if it has one: 5/15m, "100/1m counter", "1000/24h counter named daily".
                   A window is 90s, 15m, 1h30m or 24h. Give the flag once for each limit of the rule.

Which client (usage, reset), one of:

  -ip ADDRESS      as RemoteIP and IP of package keyfuncs name it, an IPv6 address by its
                   /64, or by the network that -ipv6-prefix BITS says
  -user ID         as UserID names it
  -header N=VALUE  as Header names it, by the value of the header N
  -api-key-id ID   as APIKey names it, by the identity that the verifier returns
  -api-key-stdin   the same by the API key itself, where that is the identity (Issued). It is
                   read from the standard input, so that it does not stand in the list of
                   processes: sash usage ... -api-key-stdin <file
  -key KEY         any other, by the key itself, as it stands in logs

Of the program that counts (check):

  -config-timeout D  its shortest Config.Timeout (default 100ms)
  -thorough          count for some seconds, as two processes: exactly, also while scripts are
                     flushed and replies lost; a cluster is asked as a whole. Flushed scripts
                     come again by themselves, but another program may wonder. Of each promise a
                     line says ok, WRONG, or skipped if the server does not allow the test. A
                     server that is silent is given up after half a minute

A process that caches a refusal notices a reset within a second, and leases end with their
length. Counts of a fallback in memory are not visible here.

Exit codes: 0 if the command has done its work, also where the client is exhausted (with
-json see "exhausted"); 1 if Redis failed, or if check has found something; 2 if the
command was called in a wrong way; 130 after SIGINT and 143 after SIGTERM, which end a command at
once. Counts of check -thorough, of limiters named check-..., may then stay for a year. The result
goes to the standard output, and errors to the standard error. No password is written.
`
