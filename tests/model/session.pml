/* One session of Baton's replication protocol (docs/protocol.md), for spin: three nodes, one gateway, one orchestrator with its
   record. README.md here says what is modelled, what is not, and what each configuration covers; check.py runs them.

   There is no clock: suspicion may be wrong at any moment, a lease is two bits that lapse in the allowed order.

   A log is ONE number. It begins with 1; a token multiplies by 4 and adds the branch that decoded it. Two owners, and two turns
   of one owner, never decode under the same branch, so they always disagree, and equal numbers are equal hash chains. Rows are a
   number of the same kind: the history whose rows they are.

   A configuration, by -D:
     TOKENS    longest log, at most 3           EPOCHS    highest epoch; 1 at the start
     CRASHES   of nodes, with loss of memory    GATEWAYS  losses of the gateway        CANCELS  turns that the client ends early
     SEMI      output commit, in-sync set       ROWS      rows are replicated          EXPORTS  rows leave the engine before they are sent
     LEASES    leases                           DRAINS    planned moves; with ROWS     LATE     messages under way at a time, 1 or 2
     LIVE      faults end: for the LTL property; SUSPICIONS, SHRINKS and LATES bound what is unbounded otherwise
     REACH     says so if the client has everything, the last of it from the last epoch: so the asserts are not vacuous
   A mutant, M_..., switches one rule off. There are four branches, as many as a digit can name: no owner is named and no turn
   opened beyond them. */

#ifndef TOKENS
#define TOKENS 2
#endif
#ifndef EPOCHS
#define EPOCHS 2
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef GATEWAYS
#define GATEWAYS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef LATE
#define LATE 1
#endif
#ifndef SUSPICIONS
#define SUSPICIONS 1                                       /* promotions away from an owner that lives */
#endif
#ifndef SHRINKS
#define SHRINKS 1                                          /* standbys taken out of the set though they live */
#endif
#ifndef LATES
#define LATES 1                                            /* messages that are late */
#endif
#if defined(SEMI) || defined(DRAINS)
#define ACKS                                               /* the owner counts acknowledgements, and asks the orchestrator */
#endif

/* --- logs ---------------------------------------------------------------------------------------------------------------- */

#define EMPTY 1
#define LEN(c) ((c) >= 64 -> 3 : ((c) >= 16 -> 2 : ((c) >= 4 -> 1 : 0)))
#define PREFIX(c, k) ((c) >> (2 * (LEN(c) - (k))))         /* the first k tokens, k <= LEN(c) */
#define EXTENDS(c, p) (LEN(c) >= LEN(p) && PREFIX(c, LEN(p)) == (p))
#define BEFORE_LAST(c) ((c) >> 2)
#define APPEND(c, token) ((c) * 4 + (token))
#define LAST(c) ((c) & 3)

/* --- nodes --------------------------------------------------------------------------------------------------------------- */

#define NODES 3
#define GATEWAY 3                                          /* as the destination of a message */
#define BIT(n) (1 << (n))
#define AT(n, m) ((n) * NODES + (m))                       /* index of what n knows of m */

mtype = { down, standby, sealing, serving };               /* roles; sealing and serving are the owner's */
mtype = { none, tokens, probe, rows_of, ack, out };        /* messages */
mtype = { join, move };                                    /* requests of an owner to the orchestrator */

mtype role[NODES];
byte epoch_of[NODES];                                      /* highest epoch this node has accepted or owned */
byte log_of[NODES];
byte branch[NODES];                                        /* as an owner: what it decodes under */
bit live[NODES];                                           /* as an owner: a turn is open towards the gateway */
byte incarnation[NODES];
#ifdef ROWS
byte rows[NODES];
#endif
#ifdef EXPORTS
byte exported[NODES];                                      /* rows that have left the engine and wait to be sent; 0: none */
#endif
#ifdef ACKS
byte held[9];                                              /* as an owner, of each standby: 1 + acknowledged length; 0: none */
byte held_by[9];                                           /* the incarnation that acknowledged it */
#endif
#ifdef SEMI
byte released[NODES];                                      /* as an owner: length it has released */
byte awaited[NODES];                                       /* as an owner: standbys whose acknowledgement releases wait for */
#endif
#ifdef DRAINS
byte held_rows[9];                                         /* acknowledged rows */
byte draining[NODES];                                      /* 1 + the node to move to; 0: none */
byte drains;
#endif
#ifdef LEASES
bit lease[NODES];                                          /* the node's own view of its lease */
bit granted[NODES];                                        /* the orchestrator's view of it */
#endif

/* --- the orchestrator and its record ------------------------------------------------------------------------------------- */

byte epoch = 1;
byte owner = 0;
byte record_branch = 0;                                    /* what the owner of this epoch decodes under */
byte branches = 1;                                         /* handed out */
bit owner_gone;                                            /* the process that the record names is no more */
#ifdef SEMI
byte in_sync;                                              /* mask */
byte promoted_in_sync;                                     /* mask: named owner while in the set */
#endif
#ifdef ACKS
mtype asked = none;                                        /* an owner's request under way */
byte asked_by, asked_epoch, asked_node, asked_incarnation;
#endif
#ifdef DRAINS
byte handed_by;                                            /* 1 + who has asked for the record's owner and is to tell it; 0: nobody */
bit drained;                                               /* the record's owner came by a planned move */
byte drained_log;                                          /* what the old owner had decoded when it told it; 0: it did not */
#endif

/* --- the gateway --------------------------------------------------------------------------------------------------------- */

bit gateway_up = 1;
byte sealed = 1;
byte client = EMPTY;                                       /* what the client has */
bit owed;                                                  /* some of it was released in this turn, so INV3 covers it */
byte crashes, gateways_lost, cancels;
#ifdef LIVE
byte suspicions, shrinks, lates, lost;                     /* lost: mask of nodes that crashed for good */
#define EVERYBODY (7 & ~BIT(owner) & ~lost)
/* INV14: the client has everything, and everybody who lives protects it again. */
ltl progress { <> (client >= (1 << (2 * TOKENS)) && in_sync == EVERYBODY) }
#endif

/* --- messages ------------------------------------------------------------------------------------------------------------ */

/* A message may be lost: then nobody does anything. It may arrive at once. Or it stays under way for as long as it likes and
   arrives any number of times: `late`. Tokens and probes of the same connection wait behind tokens and probes that are late;
   after a reconnect (`old`) they do not. Rows and releases wait for nothing. */
typedef message { mtype kind; byte from, to, epoch, log, rows, incarnation; bit old }
message late[LATE];

/* Scratch within one step, not part of the state. `m_` is the message that is being handled. */
hidden mtype m_kind;
hidden byte m_from, m_to, m_epoch, m_log, m_rows, m_incarnation, m_old;
hidden byte i, j, slot;
/* What becomes of a message and its acknowledgement; chosen before each step, which is then deterministic. */
mtype = { at_once, kept, ack_kept, ack_lost };
hidden mtype fate;
hidden byte again;                                         /* a late message stays, to arrive once more */

/* --- the rules, and the mutants that switch them off --------------------------------------------------------------------- */

#define OWNS(n) (role[n] == sealing || role[n] == serving)

/* O: the gateway accepts the sealed epoch or a higher one. */
#ifdef M_GATEWAY_EPOCH
#define GATEWAY_ACCEPTS(e) true
#else
#define GATEWAY_ACCEPTS(e) ((e) >= sealed)
#endif

/* S1: a standby refuses a lower epoch. */
#ifdef M_STANDBY_EPOCH
#define STANDBY_ACCEPTS(n, e) true
#else
#define STANDBY_ACCEPTS(n, e) ((e) >= epoch_of[n])
#endif

/* S3: a token is taken if the log ends in its chain. */
#ifdef M_TOKEN_CHAIN
#define TOKEN_FITS(n, c) (LEN(c) == LEN(log_of[n]) + 1)
#else
#define TOKEN_FITS(n, c) (BEFORE_LAST(c) == log_of[n])
#endif

/* S4: a row is taken between two points of the standby's own chain. */
#ifdef M_ROW_CHAIN
#define ROW_FITS(n, c) (LEN(c) <= LEN(log_of[n]))
#else
#define ROW_FITS(n, c) EXTENDS(log_of[n], c)
#endif

/* S5: an acknowledgement counts under the owner's epoch, and for a point of its own history. */
#ifdef M_ACK_EPOCH
#define ACK_EPOCH(n, e) true
#else
#define ACK_EPOCH(n, e) ((e) == epoch_of[n])
#endif
#ifdef M_ACK_CHAIN
#define ACK_CHAIN(n, c) true
#else
#define ACK_CHAIN(n, c) EXTENDS(log_of[n], c)
#endif

/* O: output commit; k tokens may leave n. */
#define LOGGED(n, m, k) (!(awaited[n] & BIT(m)) || held[AT(n, m)] > (k))
#if defined(SEMI) && !defined(M_EARLY_RELEASE)
#define COMMITTED(n, k) (LOGGED(n, 0, k) && LOGGED(n, 1, k) && LOGGED(n, 2, k))
#else
#define COMMITTED(n, k) true
#endif

/* L: alone and with a lapsed lease, nothing is released and no turn is taken. */
#ifdef SEMI
#define ALONE(n) (awaited[n] == 0)
#else
#define ALONE(n) true
#endif
#ifdef LEASES
#define LEASED(n) (lease[n] || !ALONE(n))
#else
#define LEASED(n) true
#endif
#ifdef M_LEASE_RELEASE
#define MAY_RELEASE(n) true
#else
#define MAY_RELEASE(n) LEASED(n)
#endif
#ifdef M_LEASE_OPEN
#define MAY_OPEN(n) true
#else
#define MAY_OPEN(n) LEASED(n)
#endif
/* L: counted here from the sending of a heartbeat, there from its receipt, so it lapses here first. */
#ifdef M_LEASE_ORDER
#define LAPSED_HERE(n) true
#else
#define LAPSED_HERE(n) (!lease[n])
#endif

/* I2: who joins holds everything released; an owner knows what that is once it has adopted the gateway's log. */
#ifdef M_JOIN_SEALING
#define MAY_ADD(n) OWNS(n)
#else
#define MAY_ADD(n) (role[n] == serving && live[n])
#endif
#ifdef M_JOIN_BEHIND
#define HAS_ALL_RELEASED(n, m) (held[AT(n, m)] > 0)
#else
#define HAS_ALL_RELEASED(n, m) (held[AT(n, m)] > released[n])
#endif
/* I2, M: the orchestrator changes only the record of the epoch that was meant, and names a node only if the incarnation that
   acknowledged runs. */
#ifdef M_CAS_EPOCH
#define CAS_EPOCH(e) true
#else
#define CAS_EPOCH(e) ((e) == epoch)
#endif
#ifdef M_INCARNATION
#define RUNS(m, number) (role[m] != down)
#else
#define RUNS(m, number) (role[m] != down && incarnation[m] == (number))
#endif
/* I2: an owner that has asked to add a standby waits for it until that is answered, reachable or not. */
#ifdef M_JOIN_LOST
#define JOINING(n) 0
#else
#define JOINING(n) ((asked == join && asked_by == n && asked_epoch == epoch_of[n]) -> BIT(asked_node) : 0)
#endif

/* P: outside the in-sync set only while a gateway lives to give the log. */
#ifdef SEMI
#define IN_SYNC(n) (in_sync & BIT(n))
#else
#define IN_SYNC(n) false
#endif
#ifdef M_PROMOTE_ANYBODY
#define ELIGIBLE(n) true
#else
#define ELIGIBLE(n) (IN_SYNC(n) || gateway_up)
#endif

/* M: an owner that drains decodes nothing more, and asks for the move; it goes on by itself only when no such request is under
   way. When the record has changed and the other side has all of the log and all rows, it tells the other side. */
#ifdef DRAINS
#define DRAIN_TO(n) (draining[n] - 1)
#define STOPPED(n) (draining[n] != 0)
#define UNTOLD (handed_by != 0)                            /* views show the record as it was */
#ifdef M_DRAIN_FLUSH
#define LOG_FLUSHED(n) true
#else
#define LOG_FLUSHED(n) (held[AT(n, DRAIN_TO(n))] == LEN(log_of[n]) + 1)
#endif
#if defined(M_DRAIN_ROWS) || defined(M_DRAIN_FLUSH)
#define ROWS_FLUSHED(n) true
#else
#define ROWS_FLUSHED(n) (held_rows[AT(n, DRAIN_TO(n))] == LEN(log_of[n]))
#endif
#ifdef M_DRAIN_RESUME
#define MAY_RESUME(n) true
#else
#define MAY_RESUME(n) (!(asked == move && asked_by == n) && epoch == epoch_of[n])
#endif
#ifdef M_DRAIN_TOLD
#define MAY_TAKE_OVER true
#else
#define MAY_TAKE_OVER !UNTOLD
#endif
/* The new owner learns of it by a view: the old one has given up, or one of the two is lost. */
inline end_hand_over() {
  drained = (drained_log != 0 -> 1 : 0);
  handed_by = 0
}
#else
#define STOPPED(n) false
#define UNTOLD false
#define MAY_TAKE_OVER true
#endif

/* --- what nodes do with their own state ---------------------------------------------------------------------------------- */

/* Cuts `what` to its longest common beginning with `c`. */
inline cut_to_common(what, c) {
  do
  :: !EXTENDS(c, what) -> what = BEFORE_LAST(what)
  :: else -> break
  od
}

/* Rows are cut by their number only: they do not say whose they are. */
inline cut_rows(n, length) {
#ifdef ROWS
  do
  :: LEN(rows[n]) > length -> rows[n] = BEFORE_LAST(rows[n])
  :: else -> break
  od;
#endif
#if defined(EXPORTS) && !defined(M_GENERATION)
  exported[n] = 0;                                         /* cut rows never come back: what left the engine is void */
#endif
  skip
}

inline forget_standby(n, m) {
#ifdef ACKS
  held[AT(n, m)] = 0;
  held_by[AT(n, m)] = 0;
#endif
#ifdef DRAINS
  held_rows[AT(n, m)] = 0;
#endif
  skip
}

/* Nothing is left of its time as an owner. */
inline forget_ownership(n) {
  forget_standby(n, 0);
  forget_standby(n, 1);
  forget_standby(n, 2);
#ifdef SEMI
  awaited[n] = 0;
  released[n] = 0;
#endif
#ifdef DRAINS
  draining[n] = 0;
#endif
#ifdef LEASES
  lease[n] = 1;                                            /* of no interest until it is an owner again */
  granted[n] = 1;
#endif
  live[n] = 0;
  branch[n] = 0
}

/* E: a replaced owner keeps its log as a replica. */
inline step_down(n) {
  role[n] = standby;
  forget_ownership(n);
  cut_rows(n, LEN(log_of[n]))
}

/* What standbys have acknowledged of a log counts up to where it is cut. */
inline keep_held(n, m, length) {
#if defined(ACKS) && !defined(M_HELD)
  held[AT(n, m)] = (held[AT(n, m)] > length + 1 -> length + 1 : held[AT(n, m)]);
#endif
#ifdef DRAINS
  held_rows[AT(n, m)] = (held_rows[AT(n, m)] > length -> length : held_rows[AT(n, m)]);
#endif
  skip
}

/* P: the owner's log becomes what the client has; what follows where they part is cut, rows with it. */
inline take_client_log(n) {
  i = log_of[n];
  cut_to_common(i, client);
  i = LEN(i);
  log_of[n] = client;
  keep_held(n, 0, i);
  keep_held(n, 1, i);
  keep_held(n, 2, i);
#ifndef M_ADOPT_ROWS
  cut_rows(n, i);
#endif
  skip
}

/* --- the network --------------------------------------------------------------------------------------------------------- */

#define HOLDS(s, k, f, t) (late[s].kind == (k) && late[s].from == (f) && late[s].to == (t) && !late[s].old)
#if LATE == 2
#define UNDER_WAY(k, f, t) (HOLDS(0, k, f, t) || HOLDS(1, k, f, t))
#define ROOM (late[0].kind == none || late[1].kind == none)
#else
#define UNDER_WAY(k, f, t) HOLDS(0, k, f, t)
#define ROOM (late[0].kind == none)
#endif
#define OVERTAKES(f, t) (UNDER_WAY(tokens, f, t) || UNDER_WAY(probe, f, t))

#ifdef LIVE
#define MAY_BE_LATE (ROOM && lates < LATES)
#else
#define MAY_BE_LATE ROOM
#endif

inline clear(s) {
  late[s].kind = none;
  late[s].from = 0;
  late[s].to = 0;
  late[s].epoch = 0;
  late[s].log = 0;
  late[s].rows = 0;
  late[s].incarnation = 0;
  late[s].old = 0
}

/* The late messages for which `condition` holds, in terms of `slot`, are no more. */
inline discard_one(condition) {
  if
  :: late[slot].kind != none && (condition) -> clear(slot)
  :: else -> skip
  fi
}
inline discard(condition) {
  slot = 0;
  discard_one(condition);
#if LATE == 2
  slot = 1;
  discard_one(condition);
  slot = 0;
#endif
  skip
}

/* Late messages that would be refused whenever they came. Only to have fewer states, so each goes by a rule that is in force. */
#ifdef M_STANDBY_EPOCH
#define DEAD_RECORD(s) false
#else
#define DEAD_RECORD(s) (late[s].kind != ack && late[s].to != GATEWAY && late[s].epoch < epoch_of[late[s].to])
#endif
#ifdef M_ACK_EPOCH
#define DEAD_ACK(s) false
#else
#define DEAD_ACK(s) (late[s].kind == ack && (!OWNS(late[s].to) || late[s].epoch != epoch_of[late[s].to]))
#endif
#define DEAD_OUT(s) (late[s].kind == out && !GATEWAY_ACCEPTS(late[s].epoch))
inline discard_dead() {
  discard(DEAD_OUT(slot));
  discard(DEAD_ACK(slot));
  discard(DEAD_RECORD(slot))
}

inline keep_under_way() {
  slot = (late[0].kind == none -> 0 : LATE - 1);
  late[slot].kind = m_kind;
  late[slot].from = m_from;
  late[slot].to = m_to;
  late[slot].epoch = m_epoch;
  late[slot].log = m_log;
  late[slot].rows = m_rows;
  late[slot].incarnation = m_incarnation;
#ifdef LIVE
  lates++;
#endif
  slot = 0
}

/* An acknowledgement at the owner m_to, by the standby m_from. */
inline receive_ack() {
#ifdef ACKS
  if
  :: OWNS(m_to) && ACK_EPOCH(m_to, m_epoch) && ACK_CHAIN(m_to, m_log) ->
     held[AT(m_to, m_from)] = LEN(m_log) + 1;
     held_by[AT(m_to, m_from)] = m_incarnation;
#ifdef DRAINS
     held_rows[AT(m_to, m_from)] = m_rows;
#endif
     skip
  :: else -> skip
  fi;
#endif
  skip
}

/* The standby m_to says what it has. */
inline acknowledge() {
#ifdef ROWS
  assert(LEN(rows[m_to]) <= LEN(log_of[m_to]));            /* INV8 */
#endif
#ifdef ACKS
  i = m_to;
  m_to = m_from;
  m_from = i;
  m_kind = ack;
  m_epoch = epoch_of[m_from];
  m_log = log_of[m_from];
#ifdef DRAINS
  m_rows = LEN(rows[m_from]);
#else
  m_rows = 0;
#endif
  m_incarnation = incarnation[m_from];
  if
  :: fate == ack_lost || m_old || UNDER_WAY(ack, m_from, m_to) -> skip                 /* the old connection takes none back */
  :: fate == ack_kept && ROOM && !UNDER_WAY(ack, m_from, m_to) -> keep_under_way()
  :: else -> receive_ack()
  fi;
#endif
  skip
}

/* S: tokens, a probe or rows at the node m_to. */
inline receive_record() {
  if
  :: role[m_to] == standby && STANDBY_ACCEPTS(m_to, m_epoch) ->
     epoch_of[m_to] = (m_epoch > epoch_of[m_to] -> m_epoch : epoch_of[m_to]);
#ifndef M_OLD_CONNECTION
     /* What an older connection still brings under this epoch is refused from here on. */
     if
     :: !m_old -> discard(late[slot].old && late[slot].from == m_from && late[slot].to == m_to && late[slot].epoch == m_epoch)
     :: else -> skip
     fi;
#endif
     if
     :: m_kind == probe ->                                 /* G: only what the probe contradicts is cut, rows with it */
        cut_to_common(log_of[m_to], m_log);
#ifndef M_STANDBY_ROWS
        cut_rows(m_to, LEN(log_of[m_to]));
#endif
        acknowledge()
     :: m_kind == tokens && TOKEN_FITS(m_to, m_log) ->
        log_of[m_to] = APPEND(log_of[m_to], LAST(m_log));
        assert(log_of[m_to] == m_log);                     /* INV8 */
        acknowledge()
     :: m_kind == tokens && EXTENDS(log_of[m_to], m_log) -> /* said twice */
        acknowledge()
#ifdef ROWS
     :: m_kind == rows_of && LEN(m_log) == LEN(rows[m_to]) + 1 && ROW_FITS(m_to, m_log) ->
        rows[m_to] = m_rows;
        assert(EXTENDS(log_of[m_to], rows[m_to]));         /* INV5 */
        acknowledge()
#endif
     :: else -> skip                                       /* a gap or a fork: it will be probed */
     fi
  :: OWNS(m_to) && m_epoch > epoch_of[m_to] ->             /* superseded; not answered */
     epoch_of[m_to] = m_epoch;
     step_down(m_to)
  :: else -> skip
  fi
}

#define SAY_REACHED c_code { static int said; if (!said) { said = 1; printf("reached\n"); } }

/* O: a token at the gateway; m_log is the history that ends with it. */
inline receive_out() {
  if
  :: gateway_up && GATEWAY_ACCEPTS(m_epoch) && LEN(m_log) == LEN(client) + 1 ->
     assert(EXTENDS(m_log, client));                       /* INV1, INV2 */
     client = m_log;
     owed = 1;
#ifdef M_SEAL
     sealed = (m_epoch > sealed -> m_epoch : sealed);
#endif
#ifdef REACH
     if
     :: LEN(client) == TOKENS && m_epoch == EPOCHS -> SAY_REACHED
     :: else -> skip
     fi;
#endif
     skip
  :: gateway_up && GATEWAY_ACCEPTS(m_epoch) && LEN(m_log) <= LEN(client) ->
     assert(EXTENDS(client, m_log))                        /* INV1: what is said twice is the same */
  :: else -> skip
  fi
}

inline write_message(what, n, to_whom, log_part, rows_part) {
  m_kind = what;
  m_from = n;
  m_to = to_whom;
  m_epoch = epoch_of[n];
  m_log = log_part;
  m_rows = rows_part;
  m_incarnation = 0;
  m_old = 0
}

inline choose_fate_of_ack() {
  if
  :: fate = at_once
#ifdef ACKS
#ifdef LIVE
  :: lates < LATES -> fate = ack_kept
#else
  :: fate = ack_kept
  :: fate = ack_lost
#endif
#endif
  fi
}

inline send_record(what, n, m, log_part, rows_part) {
  if
  :: MAY_BE_LATE -> fate = kept
  :: choose_fate_of_ack()
  fi;
  d_step {
    write_message(what, n, m, log_part, rows_part);
#ifndef M_ACK_SEQUENCE
    /* S5: what m acknowledged before it was probed does not count any more: the probe may cut it. */
    if
    :: m_kind == probe -> discard(late[slot].kind == ack && late[slot].from == m_to && late[slot].to == m_from)
    :: else -> skip
    fi;
#endif
    if
    :: fate == kept -> keep_under_way()
    :: else -> receive_record()
    fi;
    discard_dead()
  }
}

/* A late message arrives. */
inline arrive(s) {
  choose_fate_of_ack();
  if
  :: again = false
#ifndef LIVE
  :: late[s].kind != ack -> again = true
#endif
  fi;
  d_step {
    m_kind = late[s].kind;
    m_from = late[s].from;
    m_to = late[s].to;
    m_epoch = late[s].epoch;
    m_log = late[s].log;
    m_rows = late[s].rows;
    m_incarnation = late[s].incarnation;
    m_old = late[s].old;
    if
    :: again -> skip
    :: else -> clear(s)
    fi;
    if
    :: m_kind == ack -> receive_ack()
    :: m_kind == out -> receive_out()
    :: else -> receive_record()
    fi;
    discard_dead()
  }
}

/* Its connection is replaced: an acknowledgement is lost with it, a record may still arrive. */
inline reconnect(s) {
  if
  :: late[s].kind == ack -> clear(s)
  :: else -> late[s].old = 1
  fi
}

proctype Network() {
  end: do
  :: atomic { late[0].kind != none -> arrive(0) }
  :: d_step { late[0].kind != none && !late[0].old && late[0].kind != out -> reconnect(0) }
#if LATE == 2
  :: atomic { late[1].kind != none -> arrive(1) }
  :: d_step { late[1].kind != none && !late[1].old && late[1].kind != out -> reconnect(1) }
#endif
  od
}

/* --- what a node does towards another ------------------------------------------------------------------------------------ */

/* In LIVE a step must change something: a process that repeats itself for ever is fair in doing so. */
#ifdef LIVE
#define USEFUL(x) (x)
#else
#define USEFUL(x) true
#endif

/* Not agreed yet: m has not heard of this epoch, has what n has not, or n does not know what m has. */
#ifdef ACKS
#define DISAGREE(n, m) \
  (epoch_of[m] != epoch_of[n] || !EXTENDS(log_of[n], log_of[m]) || held[AT(n, m)] != LEN(log_of[m]) + 1 || \
   held_by[AT(n, m)] != incarnation[m])
#else
#define DISAGREE(n, m) (epoch_of[m] != epoch_of[n] || !EXTENDS(log_of[n], log_of[m]))
#endif
#ifdef M_PROBES
#define PROBES(n, m) false
#else
#define PROBES(n, m) DISAGREE(n, m)
#endif
#define REACHES(n, m) (OWNS(n) && role[m] != down && USEFUL(epoch_of[m] <= epoch_of[n]))

/* D, G: probes where the two may disagree, then the tokens that m lacks. */
#define REPLICATE(n, m) \
  :: atomic { REACHES(n, m) && PROBES(n, m) && !OVERTAKES(n, m) -> \
     send_record(probe, n, m, log_of[n], 0) } \
  :: atomic { REACHES(n, m) && LEN(log_of[m]) < LEN(log_of[n]) && USEFUL(EXTENDS(log_of[n], log_of[m])) && !OVERTAKES(n, m) -> \
     send_record(tokens, n, m, PREFIX(log_of[n], LEN(log_of[m]) + 1), 0) }

/* A row that m lacks, described by the log as it is now. */
#if defined(EXPORTS)
#define REPLICATE_ROWS(n, m) \
  :: atomic { REACHES(n, m) && exported[n] != 0 && LEN(exported[n]) <= LEN(log_of[n]) -> \
     send_record(rows_of, n, m, PREFIX(log_of[n], LEN(exported[n])), exported[n]) }
#elif defined(ROWS)
#define REPLICATE_ROWS(n, m) \
  :: atomic { REACHES(n, m) && LEN(rows[m]) < LEN(rows[n]) && LEN(rows[m]) < LEN(log_of[n]) -> \
     send_record(rows_of, n, m, PREFIX(log_of[n], LEN(rows[m]) + 1), PREFIX(rows[n], LEN(rows[m]) + 1)) }
#else
#define REPLICATE_ROWS(n, m)
#endif

inline ask(what, n, m) {
  asked = what;
  asked_by = n;
  asked_epoch = epoch_of[n];
  asked_node = m;
  asked_incarnation = held_by[AT(n, m)]
}

/* I: the in-sync set. A removal is one step at the record, of which the owner hears later. An addition is under way for a while,
   and the owner waits for the standby from before it is asked. */
#define GONE(n, m) (role[m] == down || held_by[AT(n, m)] != incarnation[m])
#ifdef LIVE
#define MAY_SHRINK(n, m) (GONE(n, m) || shrinks < SHRINKS)
#define COUNT_SHRINK(n, m) shrinks = (GONE(n, m) -> shrinks : shrinks + 1)
#else
#define MAY_SHRINK(n, m) true
#define COUNT_SHRINK(n, m) skip
#endif
#if defined(M_SHRINK)
#define IS_MEMBER(n, m) (awaited[n] & BIT(m))
#define REMOVE(n, m) awaited[n] = awaited[n] & ~BIT(m)
#elif defined(M_NO_SHRINK)
#define IS_MEMBER(n, m) false
#define REMOVE(n, m) skip
#else
#define IS_MEMBER(n, m) ((in_sync & BIT(m)) && CAS_EPOCH(epoch_of[n]))
#define REMOVE(n, m) in_sync = in_sync & ~BIT(m)
#endif
#ifdef SEMI
#define KEEP_SET(n, m) \
  :: d_step { OWNS(n) && IS_MEMBER(n, m) && MAY_SHRINK(n, m) -> \
     COUNT_SHRINK(n, m); \
     REMOVE(n, m) } \
  :: d_step { MAY_ADD(n) && asked == none && !(in_sync & BIT(m)) && HAS_ALL_RELEASED(n, m) && \
              USEFUL(!GONE(n, m) && epoch == epoch_of[n]) -> \
     awaited[n] = awaited[n] | BIT(m); \
     ask(join, n, m) }
#else
#define KEEP_SET(n, m)
#endif

/* M: a planned move. */
#ifdef DRAINS
#define DRAIN(n, m) \
  :: d_step { role[n] == serving && live[n] && draining[n] == 0 && drains < DRAINS && role[m] != down && FIRST_TO(m) -> \
     drains++; \
     draining[n] = m + 1 } \
  :: d_step { role[n] == serving && draining[n] == m + 1 && asked == none && epoch == epoch_of[n] -> \
     ask(move, n, m) } \
  :: d_step { role[n] == serving && draining[n] == m + 1 && handed_by == n + 1 && LOG_FLUSHED(n) && ROWS_FLUSHED(n) -> \
     drained_log = log_of[n]; \
     end_hand_over(); \
     step_down(n); \
     discard_dead() }
#else
#define DRAIN(n, m)
#endif

/* Nodes 1 and 2 are alike, so whichever of them is first to be named an owner may be called 1. */
#define FIRST_TO(n) ((n) != 2 || epoch > 1)

/* --- a node -------------------------------------------------------------------------------------------------------------- */

#define FIRST_OTHER(n) ((n + 1) % NODES)
#define SECOND_OTHER(n) ((n + 2) % NODES)
#ifdef ROWS
#define COMPUTED(n) (LEN(rows[n]) == LEN(log_of[n]))
#else
#define COMPUTED(n) true
#endif

#ifdef LIVE
#define MAY_RETURN(n) (!(lost & BIT(n)))
#else
#define MAY_RETURN(n) true
#endif
inline crash(n) {
  crashes++;
  forget_ownership(n);
  role[n] = down;
  incarnation[n]++;
  log_of[n] = EMPTY;
  epoch_of[n] = 0;
#ifdef ROWS
  rows[n] = EMPTY;
#endif
#ifdef EXPORTS
  exported[n] = 0;
#endif
#ifdef SEMI
  promoted_in_sync = promoted_in_sync & ~BIT(n);
#endif
#ifdef DRAINS
  if
  :: UNTOLD && (handed_by == n + 1 || owner == n) -> drained_log = 0; end_hand_over()
  :: else -> skip
  fi;
#endif
  owner_gone = (owner == n -> 1 : owner_gone);
  discard(late[slot].to == n);
  discard_dead()
}

proctype Node(byte n) {
  end: do

  /* Decode. */
  :: d_step { role[n] == serving && live[n] && !STOPPED(n) && LEN(log_of[n]) < TOKENS && COMPUTED(n) ->
#ifdef ROWS
     assert(rows[n] == log_of[n]);                         /* INV5 */
     rows[n] = APPEND(rows[n], branch[n]);
#endif
     log_of[n] = APPEND(log_of[n], branch[n]) }
#ifdef ROWS
  /* Evaluate what the log has and the rows lack. */
  :: d_step { OWNS(n) && LEN(rows[n]) < LEN(log_of[n]) ->
     rows[n] = APPEND(rows[n], LAST(PREFIX(log_of[n], LEN(rows[n]) + 1))) }
#endif
#ifdef EXPORTS
  /* A row leaves the engine; a new one takes the place of one that has been sent. */
  :: d_step { OWNS(n) && LEN(rows[n]) > 0 && exported[n] != rows[n] -> exported[n] = rows[n] }
  :: d_step { OWNS(n) && LEN(rows[n]) > 1 && exported[n] != BEFORE_LAST(rows[n]) -> exported[n] = BEFORE_LAST(rows[n]) }
#endif

  REPLICATE(n, FIRST_OTHER(n))
  REPLICATE(n, SECOND_OTHER(n))
  REPLICATE_ROWS(n, FIRST_OTHER(n))
  REPLICATE_ROWS(n, SECOND_OTHER(n))
  KEEP_SET(n, FIRST_OTHER(n))
  KEEP_SET(n, SECOND_OTHER(n))
  DRAIN(n, FIRST_OTHER(n))
  DRAIN(n, SECOND_OTHER(n))
#ifdef SEMI
  /* It hears of the record: it waits for the set and for whom it has asked to add. */
  :: d_step { OWNS(n) && epoch == epoch_of[n] && awaited[n] != (in_sync | JOINING(n)) ->
     awaited[n] = in_sync | JOINING(n);
#ifdef M_LEASE_HEARD
     /* What nobody holds back any more is released at once, lease or not. */
     assert(!live[n] || LEN(log_of[n]) <= LEN(client) || !COMMITTED(n, LEN(client) + 1) || granted[n] || !ALONE(n));   /* INV11 */
#endif
     skip }
#endif
#ifdef DRAINS
  :: d_step { OWNS(n) && draining[n] != 0 && MAY_RESUME(n) -> draining[n] = 0 }
#endif

  /* O: release the next token. */
  :: atomic { role[n] == serving && live[n] && LEN(log_of[n]) > LEN(client) && COMMITTED(n, LEN(client) + 1) && MAY_RELEASE(n) &&
              USEFUL(gateway_up && GATEWAY_ACCEPTS(epoch_of[n])) ->
     if
     :: fate = at_once
     :: MAY_BE_LATE -> fate = kept
     fi;
     d_step {
       write_message(out, n, GATEWAY, PREFIX(log_of[n], LEN(client) + 1), 0);
#ifdef LEASES
       assert(granted[n] || !ALONE(n));                    /* INV11 */
#endif
#ifdef SEMI
       released[n] = LEN(m_log);
       if
       :: epoch == epoch_of[n] ->
          assert((in_sync & ~awaited[n]) == 0);            /* INV7 */
          assert(!IN_SYNC(0) || role[0] == down || EXTENDS(log_of[0], m_log));    /* INV3 */
          assert(!IN_SYNC(1) || role[1] == down || EXTENDS(log_of[1], m_log));    /* INV3 */
          assert(!IN_SYNC(2) || role[2] == down || EXTENDS(log_of[2], m_log))     /* INV3 */
       :: else -> skip
       fi;
#endif
       if
       :: fate == kept -> keep_under_way()
       :: else -> receive_out()
       fi;
       discard_dead()
     } }

  /* P: the record names this process; it leaves its standby side, and refuses lower epochs from here on. */
  :: d_step { role[n] == standby && owner == n && !owner_gone && epoch > epoch_of[n] && MAY_TAKE_OVER ->
#ifdef M_DRAIN_TOLD
     if
     :: UNTOLD -> drained_log = log_of[handed_by - 1]; end_hand_over()
     :: else -> skip
     fi;
#endif
     role[n] = sealing;
     epoch_of[n] = epoch;
     branch[n] = record_branch;
#ifdef SEMI
     released[n] = LEN(log_of[n]);                         /* all it knows of */
#endif
     discard_dead() }
  /* P: seal the gateway and adopt what it says the client has; an unreleased tail is kept. */
  :: d_step { role[n] == sealing && gateway_up && sealed <= epoch_of[n] ->
#ifndef M_SEAL
     sealed = epoch_of[n];
#endif
#ifdef SEMI
     assert(!owed || !(promoted_in_sync & BIT(n)) || EXTENDS(log_of[n], client));       /* INV3 */
#endif
#ifdef DRAINS
     if
     :: drained && epoch == epoch_of[n] ->
        assert(EXTENDS(log_of[n], client));                /* INV17: nothing is lost */
        assert(log_of[n] == drained_log);                  /* INV17 */
        assert(rows[n] == log_of[n])                       /* INV17: nothing is evaluated again */
     :: else -> skip
     fi;
#endif
#ifndef M_ADOPT_LOG
     if
     :: !EXTENDS(log_of[n], client) -> take_client_log(n)
     :: else -> skip
     fi;
#endif
     role[n] = serving;
     live[n] = 1;
#ifdef SEMI
     released[n] = LEN(client);
#endif
#ifdef M_LEASE_RESUME
     /* What is committed already is released at once, lease or not. */
     assert(LEN(log_of[n]) <= LEN(client) || !COMMITTED(n, LEN(client) + 1) || granted[n] || !ALONE(n));   /* INV11 */
#endif
     discard_dead() }
  /* P: no gateway, so nothing to resume, and nothing is decoded. */
  :: d_step { role[n] == sealing && !gateway_up -> role[n] = serving }
  /* O: the gateway opens a turn with the client's history; the tail of an earlier turn is cut. */
  :: d_step { role[n] == serving && !live[n] && gateway_up && sealed == epoch_of[n] && MAY_OPEN(n) && branches < 4 ->
#ifdef LEASES
     assert(granted[n] || !ALONE(n));                      /* INV11 */
#endif
     take_client_log(n);
     branch[n] = branches;
     branches++;
     live[n] = 1;
#ifdef SEMI
     released[n] = LEN(client);
#endif
     owed = 0 }
  /* It learns that it has been replaced: by a view, a refused seal, a refused record, an answer; or it has given up. */
  :: d_step { OWNS(n) && epoch > epoch_of[n] && owner != n ->
#ifdef DRAINS
     if
     :: handed_by == n + 1 ->
        drained_log = (draining[n] == 0 -> log_of[n] : 0);                              /* there was no need to lose anything */
        end_hand_over()
     :: else -> skip
     fi;
#endif
     step_down(n);
     discard_dead() }

#ifdef LEASES
  /* L: a lease lapses, and is renewed. */
  :: d_step { OWNS(n) && lease[n] -> lease[n] = 0 }
  :: d_step { OWNS(n) && granted[n] && LAPSED_HERE(n) -> granted[n] = 0 }
  :: d_step { OWNS(n) && !granted[n] -> granted[n] = 1 }
  :: d_step { OWNS(n) && granted[n] && !lease[n] -> lease[n] = 1 }
#endif

#if CRASHES > 0
  /* A crash; memory is lost. */
  :: d_step { role[n] != down && crashes < CRASHES -> crash(n) }
#ifdef LIVE
  :: d_step { role[n] != down && crashes < CRASHES -> crash(n); lost = lost | BIT(n) }
#endif
  /* I: the next incarnation is not the one in the set, and is used once that one has left it. */
  :: d_step { role[n] == down && MAY_RETURN(n) ->
#if defined(SEMI) && !defined(M_REJOIN)
     in_sync = in_sync & ~BIT(n);
#endif
     role[n] = standby }
#endif
  od
}

/* --- the orchestrator ---------------------------------------------------------------------------------------------------- */

inline name_owner(n) {
#ifdef SEMI
  promoted_in_sync = (promoted_in_sync & ~BIT(n)) | (in_sync & BIT(n));
  in_sync = 0;
#endif
  epoch++;
  owner = n;
  owner_gone = 0;
  record_branch = branches;
  branches++
}

#ifdef LIVE
#define SUSPECTED (owner_gone || suspicions < SUSPICIONS)
#define COUNT_SUSPICION suspicions = (owner_gone -> suspicions : suspicions + 1)
#else
#define SUSPECTED true                                     /* rightly or wrongly */
#define COUNT_SUSPICION skip
#endif
#ifdef DRAINS
#define TELL_BY_VIEW drained_log = 0; end_hand_over()
#else
#define TELL_BY_VIEW skip
#endif
#define PROMOTE(n) \
  :: d_step { epoch < EPOCHS && role[n] == standby && (owner != n || owner_gone) && ELIGIBLE(n) && SUSPECTED && FIRST_TO(n) && \
              branches < 4 -> \
     COUNT_SUSPICION; \
     TELL_BY_VIEW; \
     name_owner(n) }

inline answer() {
  asked = none;
  asked_by = 0;
  asked_epoch = 0;
  asked_node = 0;
  asked_incarnation = 0
}

proctype Orchestrator() {
  end: do
  PROMOTE(0)
  PROMOTE(1)
  PROMOTE(2)
#ifdef SEMI
  :: d_step { asked == join ->
     if
     :: CAS_EPOCH(asked_epoch) && RUNS(asked_node, asked_incarnation) -> in_sync = in_sync | BIT(asked_node)
     :: else -> skip
     fi;
     answer() }
#endif
#ifdef DRAINS
  :: d_step { asked == move ->
     if
     :: CAS_EPOCH(asked_epoch) && RUNS(asked_node, asked_incarnation) && epoch < EPOCHS && branches < 4 ->
        drained_log = 0;
        end_hand_over();
        name_owner(asked_node);
        handed_by = ((OWNS(asked_by) && epoch_of[asked_by] == asked_epoch) -> asked_by + 1 : 0)
     :: else -> skip
     fi;
     answer() }
  /* It has taken too long. */
  :: d_step { UNTOLD -> drained_log = 0; end_hand_over() }
#endif
  od
}

/* --- the gateway --------------------------------------------------------------------------------------------------------- */

/* Whatever still comes of a turn that has ended is of no interest. */
inline end_turn() {
  live[0] = 0;
  live[1] = 0;
  live[2] = 0;
  discard(late[slot].kind == out)
}

proctype Gateway() {
  end: do
  /* A view may tell it of an epoch before the owner does. */
  :: d_step { gateway_up && sealed < epoch && !UNTOLD ->
     sealed = epoch;
     discard_dead() }
  :: d_step { gateway_up && cancels < CANCELS ->
     cancels++;
     end_turn() }
  :: d_step { gateway_up && gateways_lost < GATEWAYS ->
     gateways_lost++;
     gateway_up = 0;
     end_turn() }
  /* Another one: it has the client's history, and when it registers it is told of the record. */
  :: d_step { !gateway_up ->
     gateway_up = 1;
     sealed = epoch;
     discard_dead() }
  od
}

init {
  d_step {
    for (j : 0 .. NODES - 1) {
      role[j] = (j == 0 -> serving : standby);
      epoch_of[j] = 1;
      log_of[j] = EMPTY;
#ifdef ROWS
      rows[j] = EMPTY;
#endif
#ifdef LEASES
      lease[j] = 1;
      granted[j] = 1;
#endif
    }
    for (j : 0 .. LATE - 1) { late[j].kind = none }
#ifndef LEASES
    live[0] = 1
#endif
  }
  atomic {
    run Node(0);
    run Node(1);
    run Node(2);
    run Orchestrator();
    run Gateway();
    run Network()
  }
}
