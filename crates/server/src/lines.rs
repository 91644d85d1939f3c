//! All connections, and which of them ends where there is no place for another.
//!
//! Promises: a newcomer always gets in. While places are free it takes one. Else the connection ends that
//! has been idle longest; where none is idle, the one whose request has been coming longest, its head
//! before its body; then the one that has gone longest without taking its answer. Where all are at work, the
//! newcomer is a guest: it hears what can be told at once, and its place is the next guest's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::line::{Line, Stand};

/// Connections beyond the places.
const GUESTS_MAX: usize = 16;

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Lines {
    places: usize,
    open: Mutex<Open>,
    displaced: AtomicU64,
}

/// In the order of their coming.
#[derive(Debug, Default)]
struct Open {
    placed: Vec<Arc<Line>>,
    guests: Vec<Arc<Line>>,
}

/// How many connections there are, by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Nothing was asked.
    pub(crate) idle: usize,
    /// A request is on its way.
    pub(crate) asking: usize,
    /// A request is being answered.
    pub(crate) answered: usize,
    /// Ended for a newcomer, so far.
    pub(crate) displaced: u64,
}

/// A connection among the others, until dropped.
#[derive(Debug)]
pub(crate) struct Place {
    lines: Arc<Lines>,
    line: Arc<Line>,
    /// It has come while all were at work.
    pub(crate) is_guest: bool,
}

impl Lines {
    /// Room for so many connections, at least one, and a few guests.
    pub(crate) fn new(places: usize) -> Lines {
        Lines { places: places.max(1), open: Mutex::default(), displaced: AtomicU64::new(0) }
    }

    /// The most that are open at a time, where there are so many places.
    pub(crate) fn most_of(places: usize) -> usize {
        places.max(1) + GUESTS_MAX
    }

    /// Lets a connection in; another may have to end for it.
    pub(crate) fn enter(self: &Arc<Self>, line: &Arc<Line>) -> Place {
        let mut open = self.lock();
        let is_full = open.placed.len() >= self.places;
        let is_guest = is_full && !self.displace(&mut open.placed);
        let Open { placed, guests } = &mut *open;
        if !is_guest {
            placed.push(line.clone());
        } else {
            if guests.len() >= GUESTS_MAX {
                self.end(&guests.remove(0));
            }
            guests.push(line.clone());
        }
        Place { lines: self.clone(), line: line.clone(), is_guest }
    }

    /// Ends the connection that can be done without best, if there is one: whether there was.
    pub(crate) fn make_room(&self) -> bool {
        self.displace(&mut self.lock().placed)
    }

    /// Ends those over which nobody has taken anything for so long of an answer that is there as a whole.
    pub(crate) fn end_untaken(&self, lag: Duration) {
        let mut open = self.lock();
        let Open { placed, guests } = &mut *open;
        for lines in [placed, guests] {
            let untaken = lines.extract_if(.., |line| line.is_untaken(lag));
            untaken.for_each(|line| self.end(&line));
        }
    }

    fn displace(&self, placed: &mut Vec<Arc<Line>>) -> bool {
        let standing = placed.iter().enumerate().filter_map(|(at, line)| Some((line.rank()?, at)));
        let Some((_, at)) = standing.min() else { return false };
        self.end(&placed.remove(at));
        true
    }

    fn end(&self, line: &Line) {
        line.cut();
        self.displaced.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> Count {
        let open = self.lock();
        let mut count =
            Count { displaced: self.displaced.load(Ordering::Relaxed), ..Count::default() };
        for line in open.placed.iter().chain(&open.guests) {
            match line.stand() {
                Stand::Idle => count.idle += 1,
                Stand::Asking => count.asking += 1,
                Stand::Answered => count.answered += 1,
            }
        }
        count
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.lines.lock();
        let Open { placed, guests } = &mut *open;
        for lines in [placed, guests] {
            lines.retain(|line| !Arc::ptr_eq(line, &self.line));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;
    use crate::line::Patience;

    /// A line whose other end is gone, which nobody here asks.
    async fn line() -> Arc<Line> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (near, _far) = tokio::join!(TcpStream::connect(at), listener.accept());
        Arc::new(Line::new(near.unwrap()))
    }

    fn is_over(line: &Line) -> bool {
        line.rank().is_none() && line.stand() == Stand::Idle
    }

    #[tokio::test]
    async fn who_is_at_work_stays_and_the_rest_goes_in_order() {
        let lines = Arc::new(Lines::new(4));
        let [working, body, first, last] = [line().await, line().await, line().await, line().await];
        let _places = [&working, &body, &first, &last].map(|line| lines.enter(line));
        working.asked(false);
        body.asked(true);
        assert_eq!((lines.count().idle, lines.count().asking, lines.count().answered), (2, 1, 1));
        let mut newcomers = Vec::new();
        for leaves in [&first, &last, &body] {
            assert!(!is_over(leaves));
            let newcomer = line().await;
            let place = lines.enter(&newcomer);
            newcomer.asked(false);
            assert!(is_over(leaves) && !place.is_guest);
            newcomers.push(place);
        }
        let guests = [(); GUESTS_MAX].map(|()| async { line().await });
        let mut here = Vec::new();
        for guest in guests {
            let guest = guest.await;
            here.push((lines.enter(&guest), guest));
        }
        assert!(here.iter().all(|(place, guest)| place.is_guest && !is_over(guest)));
        let one_more = line().await;
        assert!(lines.enter(&one_more).is_guest && is_over(&here[0].1) && !is_over(&here[1].1));
        assert_eq!(lines.count().displaced, 4);
        drop(newcomers.pop());
        assert!(!lines.enter(&line().await).is_guest);
    }

    /// However little of it is taken at a time; one that is still being made has all the time.
    #[tokio::test]
    async fn an_answer_that_is_there_has_to_be_taken() {
        let [line, lasting] = [line().await, line().await];
        let patience = Patience { idle: Duration::MAX, head: Duration::MAX, stall: Duration::MAX };
        let over = |line: Arc<Line>| async move {
            let moment = Duration::from_millis(50);
            timeout(moment, line.over(patience, pending())).await.is_ok()
        };
        for (line, limit) in [(&line, Some(Duration::from_millis(1))), (&lasting, None)] {
            line.asked(false);
            line.answered(limit);
            line.is_heard(false);
            line.is_heard(true);
        }
        assert_eq!((over(line).await, over(lasting).await), (true, false));
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_ends_its_line_where_room_is_wanted() {
        let lines = Arc::new(Lines::new(3));
        let [untaken, taken, lasting] = [line().await, line().await, line().await];
        let _places = [&untaken, &taken, &lasting].map(|line| lines.enter(line));
        let hour = Duration::from_secs(3600);
        for (line, limit) in [(&untaken, Some(hour)), (&taken, Some(hour)), (&lasting, None)] {
            line.asked(false);
            line.answered(limit);
            line.is_heard(false);
        }
        taken.is_heard(true);
        lines.end_untaken(hour);
        assert!(!is_over(&untaken));
        lines.end_untaken(Duration::ZERO);
        assert_eq!([&untaken, &taken, &lasting].map(|line| is_over(line)), [true, false, false]);
    }
}
